"""A CDKTF app that has a cluster of terradask's beside a bucket of its own."""

from terradask_modules.aws import APP_CONTEXT, App, S3Bucket
from terradask_stacks.cluster_stack import ClusterStack
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import read_lock

loaded = load_settings()  # terradask.toml of this folder
settings, answers = loaded.settings, read_lock(loaded.lock_path)

app = App(context=APP_CONTEXT)  # terradask's spelling of addresses
nightly = ClusterStack(
    app,
    name="nightly",  # [clusters.nightly]
    workspace=settings.workspace,
    cluster=settings.clusters["nightly"],
    lock=answers.clusters["nightly"],  # written by `terradask plan nightly`
)
S3Bucket(nightly, "results", bucket="nightly-results")
app.synth()
