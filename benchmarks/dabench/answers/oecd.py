# %% common
import pandas as pd

table = pd.read_csv("oecd_education_spending.csv")
values = table["Value"]
# %% 472
print(f"@mean_value[{values.mean():.2f}]")
# %% 473
low, high = values.quantile([0.25, 0.75])
outside = (values < low - 1.5 * (high - low)) | (values > high + 1.5 * (high - low))
print(f"@outliers[{', '.join(map(str, table.index[outside]))}]")
# %% 474
print(f"@correlation_coefficient[{values.corr(table['TIME']):.2f}]")
# %% 480
print(f"@standard_deviation[{(values - values.mean()).std():.2f}]")
