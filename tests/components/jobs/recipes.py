"""Recipes of all images, as text."""

from components.jobs.image.recipe import benchmark_dockerfile, mpi_dockerfile, training_dockerfile
from stacks.images import BenchmarkRecipe, TrainingRecipe

TRAINING = TrainingRecipe(image="registry.example:5000/horovod:24.03")
RECIPES = {
    "benchmark-distribution": benchmark_dockerfile(BenchmarkRecipe()),
    "benchmark-vendor": benchmark_dockerfile(BenchmarkRecipe(verbs="vendor")),
    "mpi": mpi_dockerfile(),
    "training": training_dockerfile(TRAINING),
    "training-distribution": training_dockerfile(TRAINING.model_copy(update={"verbs": "distribution"})),
}
