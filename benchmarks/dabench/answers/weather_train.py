# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("weather_train.csv")
# %% 359
speed = table["wind speed"].dropna()
skewness = (speed.mean() - speed.mode()[0]) / speed.std()
kind = "positive" if skewness > 0 else "negative" if skewness < 0 else "symmetric"
print(f"@skewness_value[{skewness:.2f}] @skewness_type[{kind}]")
# %% 360
r = table["temperature"].corr(table["humidity"])
kind = "strong" if abs(r) >= 0.7 else "moderate" if abs(r) >= 0.3 else "weak"
print(f"@correlation_coefficient[{r:.2f}] @correlation_strength[{kind}]")
# %% 361
print(f"@outlier_count[{(abs(stats.zscore(table['wind speed'].dropna())) > 3).sum()}]")
# %% 363
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

names = ["temperature", "humidity", "wind speed"]
known = table.dropna(subset=[*names, "sun"])
parts = train_test_split(known[names], known["sun"], test_size=0.3, random_state=42)
train, test, train_sun, test_sun = parts
predicted = LinearRegression().fit(train, train_sun).predict(test)
print(f"@mean_squared_error[{mean_squared_error(test_sun, predicted):.2f}]")
