"""Settings under the names that other tools use."""

# None of these names is a setting here in any group, except with the group that is named.
_NAMES = {
    "training.learning_rate": "lr max_lr peak_lr eta",
    "training.budget": "epochs num_epochs num_train_epochs max_steps num_steps time",
    "training.warmup_fraction": "warmup warmup_steps warmup_ratio lr_warmup_steps num_warmup_steps",
    "training.weight_decay": "wd decay",
    "training.lr_schedule": "schedule scheduler lr_scheduler lr_scheduler_type",
    "training.max_grad_norm": "clip grad_clip clip_grad gradient_clip_val",
    "training.micro_batch_tokens": "gradient_accumulation_steps",
    "training.threads": "workers num_workers num_threads cpus",
    "training.save_every": "save_steps save_interval",
    "training.evaluate_every": "eval_steps eval_every eval_interval",
    "model.width": "hidden_size d_model n_embd dim vector_size embedding_dim",
    "model.min_n": "minn",
    "model.max_n": "maxn",
    "model.num_buckets": "bucket",
    "model.num_layers": "layers n_layer n_layers num_hidden_layers",
    "model.num_heads": "heads n_head n_heads num_attention_heads",
    "data.sequence_length": "max_seq_length max_len seq_length seq_len block_size",
    "objective.window": "window_size",
    "objective.negatives": "negative neg num_negatives",
    "objective.mask_probability": "mlm_probability mask_prob",
    "finetuning.patience": "early_stopping early_stopping_patience",
}
SETTINGS_OF_OTHER_TOOLS = {name: setting for setting, names in _NAMES.items() for name in names.split()}
SETTINGS_OF_OTHER_TOOLS["training.batch_size"] = (
    "training.batch_tokens (in tokens) or, in fine-tuning, data.batch_size (in examples)"
)

# Settings that are options in other tools, under the same names.
_OPTIONS_OF_OTHER_TOOLS = {
    name.partition(".")[2]: name
    for name in (
        *("training.learning_rate", "training.weight_decay", "training.lr_schedule", "training.max_grad_norm"),
        *("training.threads", "training.save_every", "training.evaluate_every", "finetuning.patience"),
        *("model.width", "model.num_layers", "model.num_heads", "model.dropout", "model.vocab_size"),
        *("objective.window", "objective.negatives", "tokenizer.min_count"),
    )
}


def find_setting(option: str) -> str | None:
    """The setting that an option of another tool sets."""
    return SETTINGS_OF_OTHER_TOOLS.get(option) or _OPTIONS_OF_OTHER_TOOLS.get(option)
