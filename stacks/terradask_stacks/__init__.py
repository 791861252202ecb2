"""What a team deploys: settings, the network and cluster stacks, the CDKTF app, synthesis."""
