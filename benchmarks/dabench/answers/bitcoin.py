# %% common
import pandas as pd

table = pd.read_csv("YAHOO-BTC_USD_D.csv")
# %% 657
close = table["Close"]
print(f"@mean_close[{close.mean():.2f}] @median_close[{close.median():.2f}]")
print(f"@std_close[{close.std():.2f}]")
# %% 658
from scipy import stats

volume = table["Volume"].dropna()
p = stats.kstest(volume, "norm", args=(volume.mean(), volume.std())).pvalue
print(f"@result_ks_test[{'not_normal' if p < 0.05 else 'normal'}]")
# %% 659
print(f"@correlation_high_low[{table['High'].corr(table['Low']):.2f}]")
# %% 662
import statistics

change = (table["Close"] - table["Open"]).dropna()
print(f"@median_price_change[{statistics.median(change):.2f}]")
print(f"@stddev_price_change[{statistics.stdev(change):.2f}]")
# %% 663
print(f"@correlation_coefficient[{table['High'].corr(table['Low']):.2f}]")
# %% 665
close = table["Close"].fillna(table["Close"].mean())
low, high = close.quantile([0.25, 0.75])
counts = {"high": (close >= high).sum(), "low": (close <= low).sum()}
counts["medium"] = len(close) - sum(counts.values())
for name, count in counts.items():
    print(f"@{name}_count[{count}] @{name}_proportion[{count / len(close):.2f}]")
