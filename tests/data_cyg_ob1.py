"""Star cluster CYG OB1: Rousseeuw and Leroy (1987), Robust Regression, table 3, page 27.

47 stars of the Hertzsprung-Russell diagram in the direction of Cygnus; ``starsCYG`` in R's
robustbase. Four giants (temperature about 3.5) are leverage points that turn a least-squares line.
"""

import numpy as np

# Logarithm of the effective temperature at the surface.
LOG_TEMPERATURE = np.array(
    "4.37 4.56 4.26 4.56 4.30 4.46 3.84 4.57 4.26 4.37 3.49 4.43 4.48 4.01 4.29 4.42"
    " 4.23 4.42 4.23 3.49 4.29 4.29 4.42 4.49 4.38 4.42 4.29 4.38 4.22 3.48 4.38 4.56"
    " 4.45 3.49 4.23 4.62 4.53 4.45 4.53 4.43 4.38 4.45 4.50 4.45 4.55 4.45 4.42".split(),
    float,
)
# Logarithm of the light intensity.
LOG_LIGHT = np.array(
    "5.23 5.74 4.93 5.74 5.19 5.46 4.65 5.27 5.57 5.12 5.73 5.45 5.42 4.05 4.26 4.58"
    " 3.94 4.18 4.18 5.89 4.38 4.22 4.42 4.85 5.02 4.66 4.66 4.90 4.39 6.05 4.42 5.10"
    " 5.22 6.29 4.34 5.62 5.10 5.22 5.18 5.57 4.62 5.06 5.34 5.34 5.54 4.98 4.50".split(),
    float,
)
# robustbase 0.95: ltsReg(log.light ~ log.Te, data = starsCYG, alpha = 0.5)$raw.coefficients
NUM_KEPT = 25
RAW_COEFFICIENTS = np.array([-13.6240, 4.2192])
