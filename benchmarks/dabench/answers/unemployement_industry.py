# %% common
import pandas as pd

table = pd.read_csv("unemployement_industry.csv")
# %% 18
values = table["Mar.2019"].dropna()
low, high = values.quantile([0.25, 0.75])
kept = values[values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
print(f"@mean_mar_2019[{kept.mean():.2f}] @sd_mar_2019[{kept.std():.2f}]")
# %% 19
from scipy import stats

skewness = round(stats.skew(table["Mar.2020"].dropna()), 2)
print(f"@is_normal[{'Yes' if -0.5 <= skewness <= 0.5 else 'No'}]")
# %% 23
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

known = table.dropna(subset=["Mar.2019", "Mar.2020"])
parts = train_test_split(known[["Mar.2019"]], known["Mar.2020"], test_size=0.3, random_state=42)
train, test, train_level, test_level = parts
predicted = LinearRegression().fit(train, train_level).predict(test)
print(f"@Mean_Squared_Error[{mean_squared_error(test_level, predicted):.2f}]")
