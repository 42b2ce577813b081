# %% common
import pandas as pd

table = pd.read_csv("microsoft.csv")
# %% 71
print(f"@mean_volume[{table['Volume'].mean():.2f}]")
print(f"@std_dev_volume[{table['Volume'].std():.2f}]")
# %% 72
from scipy import stats

p = stats.shapiro(table["Close"]).pvalue
print(f"@normality_test_result[{'Non-normal' if p < 0.05 else 'Normal'}]")
# %% 73
print(f"@correlation_coefficient[{table['High'].corr(table['Low']):.2f}]")
# %% 75
change = table["Close"].pct_change() * 100
print(f"@daily_return_mean[{change.mean():.2f}] @daily_return_std[{change.std():.2f}]")
# %% 77
months = pd.to_datetime(table["Date"], format="%d-%b-%y").dt.to_period("M")
means = table.groupby(months)["Close"].mean()
best = means[means == means.max()].index.max()
print(f"@Highest_Monthly_Average_Close_Price[{best.month}, {best.year}, {means[best]:.2f}]")
