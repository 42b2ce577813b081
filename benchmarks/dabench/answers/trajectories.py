# %% common
import pandas as pd

table = pd.read_csv("traj-Osak.csv")
# %% 618
print(f"@correlation[{table['#photo'].corr(table['poiDuration']):.3f}]")
# %% 619
import numpy as np
from scipy import stats

durations = table["poiDuration"]
kept = durations[abs(stats.zscore(durations)) <= 2.5]
print(f"@mean_new[{np.mean(kept):.2f}] @std_dev_new[{np.std(kept, ddof=1):.2f}]")
