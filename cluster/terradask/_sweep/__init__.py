"""What carries a workspace's tag and no live deployment owns: looked for, judged by pure rules, removed."""
