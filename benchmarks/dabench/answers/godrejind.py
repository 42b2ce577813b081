# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("GODREJIND.csv")
# %% 9
print(f"@mean_close_price[{table['Close Price'].mean():.2f}]")
# %% 10
p = stats.shapiro(table["Total Traded Quantity"]).pvalue
print(f"@is_normal[{'no' if p < 0.05 else 'yes'}]")
# %% 11
r, p = stats.pearsonr(table["High Price"], table["Low Price"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 14
span = table["High Price"] - table["Low Price"]
print(f"@price_range_mean[{span.mean():.2f}]")
print(f"@price_range_median[{span.median():.2f}]")
print(f"@price_range_std_dev[{span.std():.2f}]")
