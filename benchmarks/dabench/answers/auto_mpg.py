# %% common
import numpy as np
import pandas as pd

table = pd.read_csv("auto-mpg.csv")
table["horsepower"] = pd.to_numeric(table["horsepower"], errors="coerce")
# %% 719
print(f"@mean_mpg[{table['mpg'].mean():.2f}] @median_mpg[{table['mpg'].median():.2f}]")
# %% 721
print(f"@correlation_coefficient[{table['mpg'].corr(table['weight']):.2f}]")
# %% 722
year = table.loc[table["horsepower"].idxmax(), "modelyear"]
power = table.loc[table["modelyear"] == year, "horsepower"]
print(f"@highest_horsepower_vehicle[{1900 + year if year < 100 else year}]")
# The mean has a 5 at its third place, which binary numbers do not have.
print(f"@average_horsepower[{np.round(power.mean(), 2)}] @standard_deviation[{power.std(ddof=0):.2f}]")
# %% 723
ratio = table["horsepower"] / table["weight"]
print(f"@mean_ratio[{ratio.mean():.2f}] @std_ratio[{ratio.std(ddof=0):.2f}]")
# %% 724
values = table["acceleration"]
kept = values[((values - values.mean()) / values.std(ddof=0)).abs() <= 3]
print(f"@mean_acceleration[{kept.mean():.2f}] @std_acceleration[{kept.std(ddof=0):.2f}]")
# %% 725
common = table["displacement"].value_counts().index[:3]
for place, size in enumerate(common, start=1):
    mpg = table.loc[table["displacement"] == size, "mpg"]
    print(f"@mean{place}[{mpg.mean():.2f}] @median{place}[{mpg.median():.2f}]")
# %% 726
logs = np.log(table["horsepower"].fillna(table["horsepower"].mean()))
print(f"@mean_transformed_horsepower[{logs.mean():.2f}]")
print(f"@stddev_transformed_horsepower[{logs.std():.2f}]")
# %% 727
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

features = table[["weight", "acceleration"]]
parts = train_test_split(features, table["mpg"], test_size=0.2, random_state=42)
train, test, train_mpg, test_mpg = parts
predicted = LinearRegression().fit(train, train_mpg).predict(test)
print(f"@test_mse[{mean_squared_error(test_mpg, predicted):.2f}]")
