# %% common
import pandas as pd

table = pd.read_csv("gapminder_gdp_asia.csv")
# %% 252
from scipy import stats

# A country has one value in a year, whose skewness is 0 or undefined: the first country stands for all.
skewness = [stats.skew([value, value]) for value in table["gdpPercap_1992"]]
best = pd.Series(skewness).fillna(0).idxmax()
print(f"@highest_skewness_country[{table.loc[best, 'country']}]")
# %% 254
values = table["gdpPercap_1982"]
low, high = values.quantile([0.25, 0.75])
inside = values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))
print(f"@outlier_countries[{', '.join(table.loc[~inside, 'country'])}]")
# %% 255
values = table["gdpPercap_2007"]
print(f"@mean_gdp2007[{values.mean():.2f}] @standard_deviation_gdp2007[{values.std():.2f}]")
