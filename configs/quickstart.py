"""A BERT small enough to learn something in minutes on two CPU cores: what launch/quickstart.sh trains.

    bash launch/quickstart.sh

On two idle cores: held-out MLM loss 5.73 nats, 0.83 below the unigram entropy of the same tokens; next-sentence
accuracy 0.81; 332 and 409 s in all, in two runs. It learns which words go together, hardly yet in which order. Four
heads and a peak of 2e-3 came from experiment: of 2,400 steps, those with two heads and 3e-3 ended 0.12 nat higher.

Deviations from the paper: everything is small (2 layers x 128, 4 heads, 64 tokens, a vocabulary of 4,096); 40 % of the
training text is masked, which teaches more a step (held-out text: 15 % as usual); no dropout, as it sees each example
twice at most; wider initial weights and Adam with bias correction at a learning rate that only so small a model bears.
"""

from bert_jax.recipes import finish, phase, recipe, set_phases


def get_config(arg=""):
    config = recipe("tiny")
    config.model.update(vocab_size=4096, max_positions=64, heads=4, init_std=0.05, dropout=0.0, attention_dropout=0.0)
    set_phases(config, phase("runs/quickstart/data", length=64, batch_size=32, steps=1800, rate=0.4))
    config.compute.scan_layers = False
    config.optimizer.update(bias_correction=True, b2=0.98)
    config.schedule.update(name="linear", peak=2e-3, warmup_steps=200)
    config.update(log_every=100, eval_every=600, checkpoint_every=600, eval_batch_size=64)
    return finish(config, arg)
