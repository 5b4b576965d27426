"""Settings under the names that other tools use."""

# None of these names is a setting here in any group, except with the group that is named.
SETTINGS_OF_OTHER_TOOLS: dict[str, str] = {
    **dict.fromkeys(("lr", "max_lr", "peak_lr", "eta"), "training.learning_rate"),
    **dict.fromkeys(("epochs", "num_epochs", "num_train_epochs", "max_steps", "num_steps", "time"), "training.budget"),
    **dict.fromkeys(
        ("warmup", "warmup_steps", "warmup_ratio", "lr_warmup_steps", "num_warmup_steps"), "training.warmup_fraction"
    ),
    **dict.fromkeys(("wd", "decay"), "training.weight_decay"),
    **dict.fromkeys(("schedule", "scheduler", "lr_scheduler", "lr_scheduler_type"), "training.lr_schedule"),
    **dict.fromkeys(("clip", "grad_clip", "clip_grad", "gradient_clip_val"), "training.max_grad_norm"),
    "gradient_accumulation_steps": "training.micro_batch_tokens",
    **dict.fromkeys(("workers", "num_workers", "num_threads", "cpus"), "training.threads"),
    **dict.fromkeys(("save_steps", "save_interval"), "training.save_every"),
    **dict.fromkeys(("eval_steps", "eval_every", "eval_interval"), "training.evaluate_every"),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "vector_size", "embedding_dim"), "model.width"),
    **dict.fromkeys(("layers", "n_layer", "n_layers", "num_hidden_layers"), "model.num_layers"),
    **dict.fromkeys(("heads", "n_head", "n_heads", "num_attention_heads"), "model.num_heads"),
    **dict.fromkeys(("max_seq_length", "max_len", "seq_length", "seq_len", "block_size"), "data.sequence_length"),
    "window_size": "objective.window",
    **dict.fromkeys(("negative", "neg", "num_negatives"), "objective.negatives"),
    **dict.fromkeys(("mlm_probability", "mask_prob"), "objective.mask_probability"),
    **dict.fromkeys(("early_stopping", "early_stopping_patience"), "finetuning.patience"),
    "training.batch_size": "training.batch_tokens (in tokens) or, in fine-tuning, data.batch_size (in examples)",
}

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
