# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("cost_data_with_errors.csv")
# %% 425
print(f"@missing_values_count[{table['max_sust_wind'].isna().sum()}]")
# %% 426
strongest = table.loc[table["max_storm_cat"].idxmax()]
print(f"@max_wind_speed[{strongest['max_sust_wind']:.2f}]")
# %% 427
print(f"@null_entries_count[{table['min_p'].isna().sum()}]")
# %% 428
chosen = table[table["year"].between(2000, 2010)].dropna(subset=["damage_USD"])
damage = [values for _, values in chosen.groupby("year")["damage_USD"]]
p = stats.f_oneway(*damage).pvalue
print(f"@average_damage[{', '.join(f'{values.mean():.2f}' for values in damage)}]")
print(f"@p_value[{p:.4f}] @difference_type[{'significant' if p < 0.05 else 'none'}]")
# %% 429
known = table.dropna(subset=["max_storm_cat", "damage_USD"])
r, p = stats.pearsonr(known["max_storm_cat"], known["damage_USD"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 431
# Such as `July 30 - August 1` and `August 25-26`; one day where there is no second date.
active = table["dates_active"].str.replace("\xa0", " ").str.replace("\u2013", "-")
dates = active.str.extract(r"^(\w+) +(\d+)(?: *- *(?:(\w+) +)?(\d+))?")
dates[2] = dates[2].fillna(dates[0])
dates[3] = dates[3].fillna(dates[1])
years = table["year"].astype(str)
start = pd.to_datetime(dates[0] + " " + dates[1] + " " + years, format="%B %d %Y")
end = pd.to_datetime(dates[2] + " " + dates[3] + " " + years, format="%B %d %Y")
end = end.where(end >= start, end + pd.DateOffset(years=1))
table["days"] = (end - start).dt.days + 1
above = table["damage_USD"] > table["damage_USD"].median()
for name, storms in {"high": table[above], "low": table[~above]}.items():
    r, p = stats.pearsonr(storms["max_storm_cat"], storms["days"])
    kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.4 else "nonlinear"
    print(f"@{name}_damage_correlation_coefficient[{r:.2f}] @{name}_damage_p_value[{p:.4f}]")
    print(f"@{name}_damage_relationship_type[{kind}]")
# %% 432
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

filled = table[["max_sust_wind", "damage_USD", "min_p"]]
filled = filled.fillna(filled.mean())
parts = train_test_split(filled[["damage_USD", "min_p"]], filled["max_sust_wind"], test_size=0.2, random_state=42)
train, test, train_wind, test_wind = parts
predicted = LinearRegression().fit(train, train_wind).predict(test)
print(f"@mean_squared_error[{mean_squared_error(test_wind, predicted):.4f}]")
