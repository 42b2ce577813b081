# %% common
import pandas as pd

table = pd.read_csv("0020200722.csv")
# %% 320
print(f"@mean_eventmsgtype[{table['EVENTMSGTYPE'].mean():.2f}]")
# %% 321
values = pd.to_numeric(table["SCOREMARGIN"], errors="coerce").dropna()
low, high = values.quantile([0.25, 0.75])
print(f"@outlier_count[{(~values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))).sum()}]")
# %% 324
print(f"@max_missing_values[{table.isna().sum().idxmax()}]")
# %% 326
from scipy import stats

hour = pd.to_datetime(table["WCTIMESTRING"], format="%I:%M %p").dt.hour
r, p = stats.pearsonr(hour, table["EVENTMSGTYPE"])
kind = "positive" if p < 0.05 and r >= 0.5 else "negative" if p < 0.05 and r <= -0.5 else "none"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship[{kind}]")
