# %% common
import pandas as pd

table = pd.read_csv("abalone.csv")
# %% 542
print(f"@mean_length[{table['Length'].mean():.2f}]")
# %% 543
r = table["Diameter"].corr(table["Rings"])
status = "correlate" if abs(r) >= 0.1 else "none"
print(f"@correlation_coefficient[{r:.2f}] @relationship_status[{status}]")
# %% 549
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split


def rmse(features):
    parts = train_test_split(features, table["Rings"], test_size=0.3, random_state=42)
    train, test, train_rings, test_rings = parts
    predicted = LinearRegression().fit(train, train_rings).predict(test)
    return root_mean_squared_error(test_rings, predicted)


features = table.drop(columns=["Sex", "Rings"])
volume = table["Length"] * table["Diameter"] * table["Height"]
print(f"@correlation_coefficient[{table['Length'].corr(table['Whole weight']):.4f}]")
print(f"@original_model_rmse[{rmse(features):.4f}]")
print(f"@volume_feature_model_rmse[{rmse(features.assign(volume=volume)):.4f}]")
# %% 550
from scipy import stats
from sklearn.preprocessing import MinMaxScaler

features = table.drop(columns=["Sex", "Rings"])
features = features.fillna(features.median())
handled = "Yes" if not features.isna().any().any() else "No"
scaled = MinMaxScaler().fit_transform(features)
normal = all(abs(stats.skew(column)) <= 0.5 and abs(stats.kurtosis(column)) <= 2 for column in scaled.T)
print(f'@missing_values_handled["{handled}"]')
print(f'@min_max_scaler_scale["{scaled.min():.0f}-{scaled.max():.0f}"]')
print(f'@distribution_type["{"Normal" if normal else "Non-Normal"}"]')
