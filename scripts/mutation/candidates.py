"""Where a C++ file can be changed.

Only code inside function bodies is changed, and of that nothing that only words errors, logs or checks what
a correct program never violates: a change there says nothing about behaviour. Whether a change compiles
is not decided here (compiling.py).
"""

import re

import tree_sitter
import tree_sitter_cpp

from mutation.mutant import Candidate, with_ids

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))

# Calls whose arguments are words, or checks of what only a bug in antegrad violates.
WORDS = re.compile(r"(\w+::)*(AG_CHECK|TORCH_\w*CHECK\w*|TORCH_INTERNAL_ASSERT\w*|TORCH_WARN\w*|RECORD_FUNCTION|log"
                   r"|ErrorText|\w+Error|format)$")
# Functions that say why or what in words.
WORDING_FUNCTION = re.compile(r"(difference|describe|(\w+_)?text|to_string|changed|why\w*|\w+_reason)$")
# Statements without an effect that a test could see: only the time that they save.
NO_EFFECT = re.compile(r"([^;{}]*(\.|->)(reserve|shrink_to_fit)|prefetch|static_cast<void>)\([^;{}]*\);")
# Where an exchange of two arguments is none.
SYMMETRIC = re.compile(r"(\w+::)*(min|max|swap|equal_to|make_pair)$|.*(\.|->)swap$")
# Not evaluated when the program runs, or no place for an expression that is.
NOT_AT_RUN_TIME = {"template_argument_list", "static_assert_declaration", "array_declarator", "enumerator",
                   "decltype", "sizeof_expression", "noexcept", "attribute_declaration", "requires_clause",
                   "optional_parameter_declaration", "bitfield_clause", "field_declaration", "preproc_if",
                   "preproc_def", "preproc_function_def", "concatenated_string", "ERROR"}
NEVER_SWAPPED = {"string_literal", "concatenated_string", "lambda_expression", "number_literal", "true", "false",
                 "null"}
LOOPS = {"for_statement", "for_range_loop", "while_statement", "do_statement"}
FUNCTIONS = {"function_definition", "lambda_expression"}


def text_of(node):
    return node.text.decode()


def ancestors(node):
    node = node.parent
    while node is not None:
        yield node
        node = node.parent


def descendants(node):
    yield node
    for child in node.children:
        yield from descendants(child)


def specifiers(node):
    return {text_of(c) for c in node.children if c.type in ("type_qualifier", "storage_class_specifier", "constexpr")}


def enclosing_function(node):
    return next((a for a in ancestors(node) if a.type in FUNCTIONS), None)


def named_function(node):
    return next((a for a in ancestors(node) if a.type == "function_definition"), None)


def name_of(function):
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        declarator = inner if inner is not None else next(
            (c for c in declarator.children if c.type == "function_declarator"), None)
    name = declarator.child_by_field_name("declarator") if declarator is not None else None
    return text_of(name) if name is not None else ""


def says_why(node):
    """`if (why != nullptr) ...`: fills in the words of a refusal."""
    if node.type != "if_statement":
        return False
    condition = node.child_by_field_name("condition")
    return condition is not None and text_of(condition) == "(why != nullptr)"


def is_words(node):
    """Whether this node holds nothing but words, checks, and what has no effect."""
    if node.type == "call_expression":
        return WORDS.fullmatch(text_of(node.child_by_field_name("function"))) is not None
    if node.type == "compound_literal_expression":
        return WORDS.fullmatch(text_of(node.child_by_field_name("type"))) is not None
    if node.type == "binary_expression" and text_of(node.child_by_field_name("operator")) == "+":
        return any(d.type == "string_literal" for d in descendants(node))
    if node.type == "expression_statement":
        return NO_EFFECT.fullmatch(text_of(node)) is not None
    return says_why(node)


def in_runtime_code(node):
    """Whether the node lies in a function body, is evaluated when the program runs, and is no wording."""
    in_body = False
    below = node
    for a in ancestors(node):
        if a.type in NOT_AT_RUN_TIME and not in_body:
            return False
        if a.type == "compound_statement":
            in_body = True
        if a.type == "declaration" and "constexpr" in specifiers(a):
            return False
        if a.type == "if_statement" and any(c.type == "constexpr" for c in a.children):
            return False
        if a.type == "case_statement" and below == a.child_by_field_name("value"):
            return False
        if is_words(a) or (a.type == "throw_statement" and node.type != "throw_statement"):
            return False
        if a.type == "function_definition":
            if "constexpr" in specifiers(a) or WORDING_FUNCTION.fullmatch(name_of(a).split("::")[-1]):
                return False
        below = a
    return in_body and not is_words(node)


class Finder:
    def __init__(self, source):
        self.source = source
        self.found = []

    def add(self, kind, node, changed, end=None):
        function = named_function(node)
        self.found.append(Candidate(
            kind=kind, start=node.start_byte, end=end or node.end_byte, line=node.start_point[0] + 1,
            function=name_of(function) if function is not None else "", text=text_of(node), changed=changed))

    def visit(self, node):
        find = FINDERS.get(node.type)
        if find is not None and in_runtime_code(node):
            find(self, node)
        for child in node.children:
            self.visit(child)

    # ---- dropped statements

    def statement(self, node):
        text = text_of(node)
        inner = node.named_children
        if text.startswith("*why =") or (inner and is_words(inner[0])):
            return
        self.add("dropped statement", node, "")

    def throw(self, node):
        function = named_function(node)
        if function is None or "noreturn" in text_of(function).split("{")[0]:
            return
        if can_fall_through(node):
            self.add("dropped statement", node, "")

    def early_return(self, node):
        if can_fall_through(node):
            self.add("dropped statement", node, "")

    def jump(self, node):
        nearest = next((a for a in ancestors(node) if a.type in LOOPS or a.type == "switch_statement"), None)
        if nearest is not None and nearest.type in LOOPS:
            self.add("dropped statement", node, "")

    # ---- negated conditions

    def condition_of(self, node):
        condition = node.child_by_field_name("condition")
        if condition is not None and condition.type == "condition_clause":
            condition = condition.child_by_field_name("value")
        if condition is not None and condition.type == "parenthesized_expression":
            condition = condition.named_children[0]
        if condition is None or condition.type == "declaration" or not in_runtime_code(condition):
            return
        self.negate(condition)

    def operands(self, node):
        if text_of(node.child_by_field_name("operator")) not in ("&&", "||", "and", "or"):
            return
        for side in ("left", "right"):
            operand = node.child_by_field_name(side)
            chain = operand.type == "binary_expression" and text_of(operand.child_by_field_name("operator")) in (
                "&&", "||", "and", "or")
            if not chain:
                self.negate(operand)

    def negate(self, node):
        text = text_of(node)
        plain = node.type in ("identifier", "call_expression", "field_expression", "subscript_expression",
                              "parenthesized_expression")
        if node.type == "unary_expression" and text.startswith("!"):
            changed = text[1:]
        else:
            changed = f"!{text}" if plain else f"!({text})"
        self.add("negated condition", node, changed)

    # ---- changed constants

    def number(self, node):
        text = text_of(node)
        match = re.fullmatch(r"(\d+)([uUlLzZ]*)", text)
        if match and node.parent.type != "field_declaration":
            self.add("changed constant", node, f"{int(match[1], 0) + 1}{match[2]}")

    def boolean(self, node):
        self.add("changed constant", node, "false" if text_of(node) == "true" else "true")

    # ---- swapped arguments

    def call(self, node):
        arguments = node.child_by_field_name("arguments") or node.child_by_field_name("value")
        function = node.child_by_field_name("function") or node.child_by_field_name("type")
        if arguments is None or function is None or SYMMETRIC.fullmatch(text_of(function)):
            return
        self.swap_in(node, arguments)
        for inner in arguments.named_children:  # push_back({a, b}): only the call is an expression
            if inner.type == "initializer_list":
                self.swap_in(node, inner)

    def swap_in(self, call, arguments):
        given = [c for c in arguments.named_children if c.type != "comment"]
        for a, b in zip(given, given[1:]):
            first, second = text_of(a), text_of(b)
            # Exchanged with a literal, most arguments only compile because C++ converts numbers.
            if first == second or any(x.type in NEVER_SWAPPED for x in (a, b)):
                continue
            if re.search(r"begin\(", first) and re.search(r"end\(", second):
                continue
            text = text_of(call)
            if "//" in text or "#" in text or len(text) > 600:
                continue
            cut = lambda node: (node.start_byte - call.start_byte, node.end_byte - call.start_byte)
            (a0, a1), (b0, b1) = cut(a), cut(b)
            raw = call.text
            changed = raw[:a0] + raw[b0:b1] + raw[a1:b0] + raw[a0:a1] + raw[b1:]
            self.add("swapped argument", call, changed.decode())


def can_fall_through(node):
    """Whether the code goes on after this jump was dropped: it stands below an `if` or in a loop, and the
    function ends in a return, a throw or needs neither."""
    function = enclosing_function(node)
    if function is None:
        return False
    body = function.child_by_field_name("body")
    below_branch = False
    for a in ancestors(node):
        if a == body:
            break
        if a.type == "switch_statement":
            return False
        below_branch |= a.type in LOOPS or a.type == "if_statement"
    if not below_branch:
        return False
    statements = [c for c in body.named_children if c.type != "comment"]
    returns_value = any(d.type == "return_statement" and d.named_children and enclosing_function(d) == function
                        for d in descendants(body))
    return not returns_value or statements[-1].type in ("return_statement", "throw_statement")


FINDERS = {
    "expression_statement": Finder.statement,
    "throw_statement": Finder.throw,
    "return_statement": Finder.early_return,
    "continue_statement": Finder.jump,
    "break_statement": Finder.jump,
    "if_statement": Finder.condition_of,
    "while_statement": Finder.condition_of,
    "do_statement": Finder.condition_of,
    "conditional_expression": Finder.condition_of,
    "binary_expression": Finder.operands,
    "number_literal": Finder.number,
    "true": Finder.boolean,
    "false": Finder.boolean,
    "call_expression": Finder.call,
    "compound_literal_expression": Finder.call,
}


def find(file, source):
    """All candidates of a file (its name only serves the ids), in the order of the file."""
    finder = Finder(source)
    finder.visit(PARSER.parse(source).root_node)
    unique = {}
    for candidate in finder.found:  # `a && b` as a condition is found as condition and as operand
        unique.setdefault((candidate.kind, candidate.start, candidate.end, candidate.changed), candidate)
    return with_ids(file, source, unique.values())
