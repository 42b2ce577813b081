# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("bitconnect_price.csv")
volume = pd.to_numeric(table["Volume"].astype(str).str.replace(",", ""), errors="coerce")
# %% 418
print(f"@outliers_count[{(abs(stats.zscore(volume.dropna())) > 3).sum()}]")
# %% 419
weekend = pd.to_datetime(table["Date"]).dt.dayofweek >= 5
inside, outside = table.loc[~weekend, "Open"], table.loc[weekend, "Open"]
p = stats.ttest_ind(inside, outside, equal_var=False).pvalue
print(f"@weekday_mean_price[{inside.mean():.2f}] @weekend_mean_price[{outside.mean():.2f}]")
print(f"@p_value[{p:.4f}] @significance[{'Yes' if p < 0.05 else 'No'}]")
# %% 421
print(f"@mean_volume[{volume.mean():.2f}] @median_volume[{volume.median():.2f}]")
# %% 423
r = ((table["High"] - table["Low"]) / table["Open"]).corr(volume)
kind = "positive" if r >= 0.5 else "negative" if r <= -0.5 else "none"
print(f"@correlation_coefficient[{r:.2f}] @relationship_type[{kind}]")
# %% 424
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

features = table[["Open", "High", "Low"]]
classes = pd.cut(table["Close"], [-1, 500, 1000, 10**9], labels=["low", "medium", "high"])
parts = train_test_split(features, classes, test_size=0.25, random_state=42)
train, test, train_class, test_class = parts
model = RandomForestClassifier(random_state=42).fit(train, train_class)
best = pd.Series(model.feature_importances_, features.columns).sort_values(ascending=False)
print(f"@accuracy[{model.score(test, test_class):.2f}]")
for place, name in enumerate(best.index, start=1):
    print(f"@feature{place}[{name}]")
