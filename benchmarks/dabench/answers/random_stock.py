# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("random_stock_data.csv")
# %% 643
volume = table["Volume"]
print(f"@mean_volume[{volume.mean():.2f}] @std_volume[{volume.std():.2f}]")
print(f"@min_volume[{volume.min():.2f}] @max_volume[{volume.max():.2f}]")
# %% 644
p = stats.shapiro(table["Close"]).pvalue
result = "Not a normal distribution" if p < 0.05 else "Normal distribution"
print(f"@p_value[{p:.4f}] @result[{result}]")
# %% 647
span = table["High"] - table["Low"]
p = stats.shapiro(span).pvalue
print(f"@price_range_mean[{span.mean():.2f}] @price_range_stddev[{span.std():.2f}]")
print(f"@price_range_p_value[{p:.4f}] @is_normal[{'yes' if p > 0.05 else 'no'}]")
