# %% common
import pandas as pd

table = pd.read_csv("tree.csv")
# %% 551
print(f"@mean_dbh_cm[{table['DBH_CM'].mean():.2f}]")
# %% 552
r = table["HT_M"].corr(table["BA_M2"])
kind = "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.3f}] @relationship_type[{kind}]")
# %% 553
values = table["TPH_PLT"]
low, high = values.quantile([0.25, 0.75])
print(f"@outliers_count[{(~values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))).sum()}]")
# %% 554
chosen = table[(table["CON"] == 1) & (table["PLTID"] == 5)]
print(f"@median_ht_m[{chosen['HT_M'].median():.2f}]")
# %% 555
print(f"@unique_species_count[{(table['SPP_SYMBOL'].value_counts() >= 5).sum()}]")
