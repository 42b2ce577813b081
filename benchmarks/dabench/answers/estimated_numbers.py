# %% common
import pandas as pd

table = pd.read_csv("estimated_numbers.csv")


def count(column):
    """The estimate itself: the range that follows it in brackets is left out."""
    return pd.to_numeric(column.str.replace(r"\[.*", "", regex=True))


table["cases"] = count(table["No. of cases"])
table["deaths"] = count(table["No. of deaths"])
# %% 55
print(f"@mean_cases[{table['cases'].mean():.0f}]")
# %% 56
most = table.loc[table["deaths"].idxmax()]
print(f"@max_deaths_country[{most['Country']}] @max_deaths_year[{most['Year']}]")
# %% 57
print(f"@correlation_coefficient[{table['cases'].corr(table['deaths']):.2f}]")
# %% 58
missing = table.isna().mean() * 100
print(f"@percentage_cases_min[{missing['No. of cases_min']:.2f}]")
print(f"@percentage_deaths_max[{missing['No. of deaths_max']:.2f}]")
# %% 59
americas = table[table["WHO Region"] == "Americas"].dropna(subset=["cases"])
print(f"@country_name[{americas.groupby('Country')['cases'].mean().idxmax()}]")
# %% 62
deaths = table[["Country", "No. of deaths_max"]].dropna()
values = deaths["No. of deaths_max"]
low, high = values.quantile([0.25, 0.75])
inside = values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))
print(f"@no_of_countries_with_outliers[{deaths.loc[~inside, 'Country'].nunique()}]")
print(f"@mean_no_of_deaths_with_outliers[{values.mean():.2f}]")
print(f"@mean_no_of_deaths_without_outliers[{values[inside].mean():.2f}]")
