"""Commands that train: pretrain, adapt, finetune and compare."""
