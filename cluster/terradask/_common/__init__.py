"""What every package uses: progress, clock, signals. Knows neither AWS nor Dask."""
