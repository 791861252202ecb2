"""Plan in Python, decide, apply exactly that plan."""

from terradask import Workspace

if __name__ == "__main__":
    workspace = Workspace.load()
    plan = workspace.plan_cluster("nightly", max_workers=50)
    print(plan.summary.headline)

    for danger in plan.summary.dangers:
        print("look at this:", danger.text)
    unexpected = [
        change.address for change in plan.summary.changes if change.action in ("delete", "replace")
    ]
    if unexpected:
        raise SystemExit(f"would destroy {unexpected}")

    # The file that was planned is what is applied; if anything has changed since, this raises.
    workspace.apply(plan)
    print("deployed:", [deployment.name for deployment in workspace.deployments()])
    workspace.destroy_cluster("nightly")
