"""Average a labelled array of a year's temperatures with xarray, in pieces, on the workers."""

import dask.array as da
import xarray as xr

from terradask import Cluster

if __name__ == "__main__":
    with Cluster(n_workers=2, wait_for_workers=True) as cluster, cluster.get_client():
        kelvin = xr.DataArray(
            da.random.default_rng(7).normal(288, 10, size=(365, 90, 180), chunks=(73, 90, 180)),
            dims=("day", "latitude", "longitude"),
            coords={"latitude": range(-89, 91, 2)},
        )
        by_latitude = kelvin.mean(("day", "longitude")).compute()
        print(f"{by_latitude.sizes['latitude']} latitudes")
        print(f"at the equator {float(by_latitude.sel(latitude=1)):.1f} K")
