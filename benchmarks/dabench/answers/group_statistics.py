# %% common
import pandas as pd

table = pd.read_csv("20170413_000000_group_statistics.csv")
table.columns = table.columns.str.strip()
wait = pd.to_timedelta(table["avg. wait time"]).dt.total_seconds()
# %% 586
print(f"@total_abandoned_calls[{table['num. calls abandoned'].dropna().sum()}]")
# %% 587
print(f"@correlation_coefficient[{table['avg. num. agents talking'].corr(wait):.3f}]")
# %% 588
from scipy import stats

print(f"@num_of_outliers[{(abs(stats.zscore(wait)) > 3).sum()}]")
# %% 589
times = pd.to_datetime(table["timestamp"], format="%b %d %Y %I:%M:%S %p")
row = table[times == "2017-04-13 08:00"].iloc[0]
calls = row["num. calls answered"] + row["num. calls abandoned"]
print(f"@abandonment_rate[{row['num. calls abandoned'] / calls * 100:.2f}]")
# %% 590
from sklearn.linear_model import LinearRegression

times = pd.to_datetime(table["timestamp"], format="%b %d %Y %I:%M:%S %p")
features = table.filter(like="num. calls").assign(minute=times.dt.hour * 60 + times.dt.minute)
model = LinearRegression().fit(features, table["avg. num. agents staffed"])
print(f"@predicted_agents[{model.predict(features[times == '2017-04-13 12:00'])[0]:.0f}]")
# %% 593
abandonment = pd.to_timedelta(table["avg. abandonment time"]).dt.total_seconds()
ratio = (wait / abandonment * 100)[abandonment > 0]
print(f"@waiting_ratio_skewness[{ratio.skew():.2f}] @is_normal[{abs(ratio.skew()) < 0.5}]")
