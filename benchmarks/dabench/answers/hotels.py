# %% common
import pandas as pd

table = pd.read_csv("hotel_data.csv")
# %% 506
print(f"@average_reviews[{table['review_count'].mean():.2f}]")
# %% 507
print(f"@total_hotels[{(table['star_rating'] == 5).sum()}]")
# %% 508
print(f"@correlation_coefficient[{table['review_count'].corr(table['bubble_score']):.3f}]")
# %% 510
known = table[(table["review_count"] >= 100) & (table["brand_name"] != "None")]
brands = known.dropna(subset=["brand_name", "star_rating"]).groupby("brand_name")["star_rating"]
brands = brands.agg(["mean", "size"])
best = brands[brands["size"] >= 10].sort_values(["mean", "size"]).index[-1]
print(f"@brand_with_highest_average_star_rating[{best}]")
# %% 513
stars = table["star_rating"]
groups = {"below3": stars < 3, "between3and4": stars.between(3, 4), "above4": stars > 4}
for name, chosen in groups.items():
    r = table.loc[chosen, "review_count"].corr(table.loc[chosen, "bubble_score"])
    print(f"@{name}_correlation[{r:.2f}]")
# %% 514
overall = table["review_count"].mean()
cities = table.groupby("city_name")["review_count"].mean()
print(f"@higher_city_count[{(cities > 2 * overall).sum()}]")
print(f"@lower_city_count[{(cities < overall / 2).sum()}]")
