# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("2014_q4.csv")
trips = table["Trips over the past 24-hours (midnight to 11:59pm)"]
# %% 372
print(f"@mean[{trips.mean():.2f}] @median[{trips.median():.2f}]")
# %% 375
w, p = stats.shapiro(trips)
print(f"@shapiro_w[{w:.4f}] @p_value[{p:.4f}]")
print(f"@skewness[{stats.skew(trips):.4f}] @kurtosis[{stats.kurtosis(trips):.4f}]")
# %% 376
import numpy as np

ratio = (trips / table["Total Annual Memberships Sold"]).replace([np.inf, -np.inf], 0)
print(f"@trips_per_membership_mean[{ratio.mean():.2f}] @trips_per_membership_median[{ratio.median():.2f}]")
print(f"@trips_per_day_mean[{trips.mean():.2f}] @trips_per_day_median[{trips.median():.2f}]")
# %% 378
passes = [name for name in table.columns if "Passes Purchased" in name]
table[passes] = table[passes].apply(pd.to_numeric, errors="coerce")
filled = table.fillna(table[passes].mean())[trips.name]
for when, values in {"pre": trips, "post": filled}.items():
    print(f"@{when}_mean[{values.mean():.2f}] @{when}_median[{values.median():.2f}]")
    print(f"@{when}_sd[{values.std():.2f}] @{when}_skewness[{stats.skew(values):.2f}]")
    print(f"@{when}_kurtosis[{stats.kurtosis(values):.2f}]")
