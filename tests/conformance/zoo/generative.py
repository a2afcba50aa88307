"""Models that generate images from noise drawn in each step: a variational autoencoder, and DCGAN with its two optimisers."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, NOISE = 4, 16


def grey_images():
    return (torch.rand(BATCH, 1, 28, 28),)


class Vae(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * 49, 2 * NOISE),
        )
        self.decoder = nn.Sequential(
            nn.Linear(NOISE, 2 * width * 49), nn.ReLU(), nn.Unflatten(1, (2 * width, 7, 7)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def forward(self, images):
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        sample = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(sample), mean, log_variance


def evidence_loss(model, images):
    logits, mean, log_variance = model(images)
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (reconstruction + divergence) / len(images)


def colour_images():
    return (2 * torch.rand(BATCH, 3, 32, 32) - 1,)


class DcGan(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        up = lambda a, b: (nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True))
        down = lambda a, b: (nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, inplace=True))
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(NOISE, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
            *up(4 * width, 2 * width), *up(2 * width, width), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
        )
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), *down(width, 2 * width),
            *down(2 * width, 4 * width), nn.Conv2d(4 * width, 1, 4), nn.Flatten(0),
        )

    def forward(self, count):
        return self.generator(torch.randn(count, NOISE, 1, 1))


def discriminator_loss(model, images):
    found, forged = model.discriminator(images), model.discriminator(model(len(images)).detach())
    right, wrong = torch.ones_like(found), torch.zeros_like(forged)
    return F.binary_cross_entropy_with_logits(found, right) + F.binary_cross_entropy_with_logits(forged, wrong)


def generator_loss(model, images):
    found = model.discriminator(model(len(images)))
    return F.binary_cross_entropy_with_logits(found, torch.ones_like(found))
