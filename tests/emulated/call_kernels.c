// Calls kernels that were compiled for another machine, on memory of the program that emulates it.
// Linked with them and with the table `kernels`. Reads calls from the first file and writes what
// became of their memory to the second one; emulated_kernels.h is the other side.
//
//   file   = call*
//   call   = kernel count number* count (begin end)* count buffer*, in i64
//   buffer = count place* page*, places in bytes from the buffer's address on
//   result = buffer that a call touched outside of its pages, or -1; byte; page* of all buffers

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kPage = 4096 };

typedef void Kernel(char* const* buffers, const int64_t* numbers, int64_t begin, int64_t end,
                    int64_t thread);
extern Kernel* const kernels[];

typedef struct {
  int64_t pages;
  int64_t* places;
  char* memory;
  int64_t size;
  char* base;
} Buffer;

static sigjmp_buf after_fault;
static char* volatile fault;

static void note_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  fault = info->si_addr;
  siglongjmp(after_fault, 1);
}

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void get(FILE* file, void* to, size_t bytes) {
  check(bytes == 0 || fread(to, bytes, 1, file) == 1, "the file of calls ends early");
}

static int64_t* get_list(FILE* file, int64_t* count, int64_t width) {
  get(file, count, sizeof *count);
  const size_t bytes = (size_t)(*count * width) * sizeof(int64_t);
  int64_t* list = malloc(bytes + 1);
  check(list != NULL, "no memory");
  get(file, list, bytes);
  return list;
}

static Buffer get_buffer(FILE* file) {
  Buffer buffer;
  buffer.places = get_list(file, &buffer.pages, 1);
  const int64_t low = buffer.pages == 0 ? 0 : buffer.places[0];
  const int64_t high = buffer.pages == 0 ? 0 : buffer.places[buffer.pages - 1] + kPage;
  buffer.size = high - low + 2 * kPage;
  buffer.memory = mmap(NULL, (size_t)buffer.size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(buffer.memory != MAP_FAILED, "no room");
  buffer.base = buffer.memory + kPage - low;
  for (int64_t i = 0; i < buffer.pages; i++) {
    char* page = buffer.base + buffer.places[i];
    check(mprotect(page, kPage, PROT_READ | PROT_WRITE) == 0, "no page");
    get(file, page, kPage);
  }
  return buffer;
}

static void put(FILE* file, const void* from, size_t bytes) {
  check(fwrite(from, bytes, 1, file) == 1, "results cannot be written");
}

static void put_result(FILE* file, const Buffer* buffers, int64_t count) {
  int64_t place[2] = {-1, 0};
  for (int64_t b = 0; b < count && fault != NULL; b++) {
    const int64_t byte = fault - buffers[b].memory;
    if (byte < 0 || byte >= buffers[b].size) continue;
    place[0] = b;
    place[1] = fault - buffers[b].base;
  }
  if (fault != NULL && place[0] < 0) place[0] = count;
  put(file, place, sizeof place);
  for (int64_t b = 0; b < count; b++) {
    for (int64_t i = 0; i < buffers[b].pages; i++) {
      put(file, buffers[b].base + buffers[b].places[i], kPage);
    }
  }
}

static void call(FILE* in, FILE* out, int64_t kernel) {
  int64_t numbers, parts, count;
  int64_t* const number = get_list(in, &numbers, 1);
  int64_t* const part = get_list(in, &parts, 2);
  get(in, &count, sizeof count);
  Buffer buffers[64];
  char* addresses[64];
  check(count <= 64, "more than 64 buffers");
  for (int64_t b = 0; b < count; b++) {
    buffers[b] = get_buffer(in);
    addresses[b] = buffers[b].base;
  }
  fault = NULL;
  if (sigsetjmp(after_fault, 1) == 0) {
    for (int64_t i = 0; i < parts; i++) {
      kernels[kernel](addresses, number, part[2 * i], part[2 * i + 1], i);
    }
  }
  put_result(out, buffers, count);
  for (int64_t b = 0; b < count; b++) {
    munmap(buffers[b].memory, (size_t)buffers[b].size);
    free(buffers[b].places);
  }
  free(number);
  free(part);
}

int main(int argc, char** argv) {
  check(argc == 3, "expected two files");
  FILE* in = fopen(argv[1], "rb");
  FILE* out = fopen(argv[2], "wb");
  check(in != NULL && out != NULL, "a file cannot be opened");
  struct sigaction action = {0};
  action.sa_sigaction = note_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  int64_t kernel;
  while (fread(&kernel, sizeof kernel, 1, in) == 1) call(in, out, kernel);
  check(fclose(out) == 0, "results cannot be written");
  return 0;
}
