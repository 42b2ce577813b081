# %% common
import pandas as pd

table = pd.read_csv("2015.csv")
score = table["Happiness Score"]
# %% 114
print(f"@country_with_highest_score[{', '.join(table.loc[score == score.max(), 'Country'])}]")
# %% 116
z = (score - score.mean()) / score.std(ddof=0)
print(f"@outlier_countries[{','.join(table.loc[z.abs() > 3, 'Country'])}]")
# %% 117
r = table.select_dtypes("number").corrwith(score).drop("Happiness Score")
name = r.abs().idxmax()
print(f"@strongest_correlation_variable[{name}]")
print(f"@correlation_type[{'positive' if r[name] > 0 else 'negative'}]")
# %% 118
r2 = table["Economy (GDP per Capita)"].corr(table["Health (Life Expectancy)"]) ** 2
print(f"@coefficient_determination[{r2:.2f}] @model_fit[{'good fit' if r2 >= 0.7 else 'poor fit'}]")
