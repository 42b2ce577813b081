# %% common
import pandas as pd

table = pd.read_csv("country_vaccinations.csv")
# %% 123
daily = table.dropna(subset=["daily_vaccinations_per_million"])
means = daily.groupby("country", sort=False)["daily_vaccinations_per_million"].mean()
print(f"@country_with_highest_average_daily_vaccinations[{means.idxmax()}]")
# %% 124
from scipy import stats

known = table.dropna(subset=["total_vaccinations_per_hundred"]).sort_values("date")
last = known.groupby("country").tail(1)
names = ["Pfizer/BioNTech", "Moderna", "Oxford/AstraZeneca", "Johnson&Johnson/Janssen"]
uses = [last["vaccines"].str.contains(name, regex=False) for name in names]
groups = [last.loc[used, "total_vaccinations_per_hundred"] for used in uses]
p = stats.f_oneway(*(group for group in groups if len(group))).pvalue
print(f"@significance_of_difference[{'yes' if p < 0.05 else 'no'}] @p_value[{p:.4f}]")
# %% 125
import statsmodels.api as sm

predictors = ["total_vaccinations", "people_vaccinated_per_hundred"]
known = table.dropna(subset=[*predictors, "people_fully_vaccinated_per_hundred"])
fit = sm.OLS(known["people_fully_vaccinated_per_hundred"], sm.add_constant(known[predictors])).fit()
said = ",".join("yes" if fit.pvalues[name] < 0.05 else "no" for name in predictors)
print(f"@significant_predictor[{said}] @r_squared[{fit.rsquared:.4f}]")
