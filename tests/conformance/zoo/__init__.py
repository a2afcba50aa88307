"""Models in plain PyTorch, small but with the structure of the models they are named after, and the means to train them."""

from zoo import decoders, encoders, generative, graphs_and_tables, vision
from zoo.training import Training, adam_of_gans, momentum

PLAIN = (
    Training("gpt", decoders.Gpt, decoders.tokens_and_next, decoders.next_token_loss),
    Training("llama", decoders.Llama, decoders.tokens_and_next, decoders.next_token_loss),
    Training("mixture of experts", decoders.MixtureOfExperts, decoders.tokens_and_next, decoders.balanced_next_token_loss),
    Training("lstm", decoders.LstmLanguageModel, decoders.tokens_and_next, decoders.next_token_loss, momentum),
    Training("bert", encoders.Bert, encoders.masked_sentences, encoders.pretraining_loss),
    Training("vit", encoders.Vit, lambda: vision.images_and_classes(32), vision.classification_loss),
    Training("t5", encoders.T5, encoders.source_and_target, encoders.translation_loss),
    Training("resnet50", vision.ResNet50, vision.images_and_classes, vision.classification_loss, momentum),
    Training("mobilenet", vision.MobileNetV2, vision.images_and_classes, vision.classification_loss, momentum),
    Training("unet", vision.UNet, vision.images_and_masks, vision.classification_loss),
    Training("convnext", vision.ConvNext, vision.images_and_classes, vision.classification_loss),
    Training("vae", generative.Vae, generative.grey_images, generative.evidence_loss),
    Training("dcgan", generative.DcGan, generative.colour_images,
             {"discriminator": generative.discriminator_loss, "generator": generative.generator_loss}, adam_of_gans),
    Training("gnn", graphs_and_tables.Gnn, graphs_and_tables.graph_and_classes, graphs_and_tables.node_loss),
    Training("dlrm", graphs_and_tables.Dlrm, graphs_and_tables.clicks, graphs_and_tables.click_loss, momentum),
)
