"""A building zone whose blinds close: a solar gain that acts only in a band of irradiance.

The trusted model of the zone's temperature is one resistance and one capacitance,
``dT/dt = (T_out - T) / (R C) + heat / C``. Below 200 W/m2 the sun does not reach the windows, and
above 550 W/m2 the blinds are down; in between, the sun heats the zone, which the model lacks. From
30 days of measured temperatures the diagnosis finds the band and the term and certifies them, and
the corrected model forecasts the next 10 days, one day ahead at a time.
"""

from functools import partial

import jax
import jax.numpy as jnp

from lisdd_jax import Verdict, diagnose, raise_if_failed
from lisdd_jax.hybrid import from_diagnosis, local_polynomial, project, rollout

RESISTANCE, CAPACITANCE, APERTURE = 4e-3, 5e3, 3.6  # K/W, Wh/K, m2
BAND = (200.0, 550.0)  # W/m2
NOISE = 0.02  # K
PER_HOUR, DAYS, TRAINING_DAYS = 6, 40, 30
PER_DAY = 24 * PER_HOUR


@jax.jit
def weather(key):
    """Hours, outdoor temperature, heating power and irradiance, every ten minutes."""
    key_clear, key_cloud, key_drift = jax.random.split(key, 3)
    time = jnp.arange(DAYS * PER_DAY) / PER_HOUR
    hour, day = time % 24, (time // 24).astype(int)
    clearness = jax.random.uniform(key_clear, (DAYS,), minval=0.3)[day]
    clouds = jnp.convolve(jax.random.normal(key_cloud, time.shape), jnp.ones(18) / 18, "same")
    sun = 850 * jnp.clip(jnp.sin((hour - 6) / 12 * jnp.pi), 0) * clearness * jnp.exp(0.5 * clouds)
    drift = 0.03 * jnp.cumsum(jax.random.normal(key_drift, time.shape))
    outdoor = 5 + 6 * jnp.sin((hour - 9) / 12 * jnp.pi) + drift
    schedule = jnp.where((hour > 6) & (hour < 22), 2500.0, 800.0)
    return time, outdoor, schedule * (1 + 0.4 * jnp.sin(2 * jnp.pi * time / 53)), sun


def design(inputs):
    """Columns of the trusted physics; their coefficients are 1 / (R C) and 1 / C."""
    zone, outdoor, heat, _ = inputs
    return jnp.stack([outdoor - zone, heat / 1000], axis=1)


def library(inputs):
    sun = inputs[3] / 1000
    return jnp.stack([sun, sun**2, jnp.ones_like(sun)], axis=1)


def forecast(rate, time, forcing, initial, ends):
    """Zone temperatures from a measured one.

    ``rate`` takes what ``design`` takes; at the ``ends``, of the irradiance, it may jump.
    """

    def slope(now, zone):
        there = [jnp.interp(now, time, part) for part in forcing]
        return rate(tuple(jnp.atleast_1d(part) for part in (zone, *there)))[0]

    def switch(now, _):
        return jnp.interp(now, time, forcing[2]) - jnp.asarray(ends)

    return rollout(slope, initial, time, switch=switch)


@partial(jax.jit, static_argnums=0)
def forecast_days(rate, parameters, days, initial, forcings, ends):
    """Forecasts of several days; rates that differ in their parameters share a program."""
    one = partial(forecast, partial(rate, parameters))
    return jax.vmap(one, (0, 0, 0, None))(days, forcings, initial, ends)


def linear(weights, inputs):
    return jnp.column_stack([design(inputs), library(inputs)]) @ weights


def by_day(values):
    """Rows of every held-out day, with the first of the next one."""
    starts = jnp.arange(TRAINING_DAYS, DAYS - 1) * PER_DAY
    return values[starts[:, None] + jnp.arange(PER_DAY + 1)]


def main():
    time, *forcing = weather(jax.random.key(5))

    def truth(inputs):
        sun = inputs[3]
        gain = jnp.where((sun >= BAND[0]) & (sun < BAND[1]), APERTURE * sun / CAPACITANCE, 0.0)
        return design(inputs) @ jnp.array([1 / RESISTANCE, 1000.0]) / CAPACITANCE + gain

    simulated = forecast(truth, time, forcing, jnp.asarray(19.0), BAND)
    raise_if_failed(simulated)
    zone = simulated.states
    measured = zone + NOISE * jax.random.normal(jax.random.key(6), zone.shape)

    past = slice(0, TRAINING_DAYS * PER_DAY)
    smooth = local_polynomial(time[past], measured[past], half_window=3).values
    inputs = (smooth, *(part[past] for part in forcing))
    columns = jnp.column_stack([design(inputs), library(inputs)])
    rows = project(time[past], measured[past], columns, window=4)
    physics, terms, sun = rows.columns[:, :2], rows.columns[:, 2:], 1000 * rows.means[:, 2]
    found = diagnose(physics, rows.response, sun, terms, key=jax.random.key(7))

    model, parameters = from_diagnosis(
        found,
        physics=lambda theta, inputs: design(inputs) @ theta,
        axis=lambda inputs: inputs[3],
        features=library,
    )
    uncorrected = jnp.linalg.lstsq(physics, rows.response)[0]
    corrected = jnp.linalg.lstsq(rows.columns, rows.response)[0]

    def rate(parts, inputs):
        """A linear model and a corrected one, of which either may be zero."""
        everywhere, in_band = parts
        return linear(everywhere, inputs) + model.apply(in_band, inputs, temperature=0.0)

    nowhere = jax.tree.map(jnp.zeros_like, parameters)
    fits = {
        "uncorrected": (jnp.append(uncorrected, jnp.zeros(terms.shape[1])), nowhere),
        "corrected everywhere": (corrected, nowhere),
        "corrected in the band": (jnp.zeros_like(corrected), parameters),
    }

    print(f"{Verdict(int(found.verdict)).name} (p = 1e{found.test.log_p_value / jnp.log(10):.0f})")
    print(f"time constant {1 / found.coefficients[0]:.2f} h, true {RESISTANCE * CAPACITANCE:.2f} h")
    print(
        f"solar gain for {found.regions.lower[0]:.0f} to {found.regions.upper[0]:.0f} W/m2,"
        f" true {BAND[0]:.0f} to {BAND[1]:.0f}"
    )
    days, forcings = by_day(time), [by_day(part) for part in forcing]
    ends = jnp.concatenate([parameters.lower, parameters.upper])
    errors = {}
    for name, fitted in fits.items():
        forecasts = forecast_days(rate, fitted, days, by_day(measured)[:, 0], forcings, ends)
        raise_if_failed(forecasts)
        error = forecasts.states - by_day(zone)
        errors[name] = float(jnp.sqrt(jnp.mean(error**2)))
        print(f"  forecast one day ahead, {name:22s} {errors[name]:.3f} K")
    return {
        "verdict": int(found.verdict),
        "lower": float(found.regions.lower[0]),
        "upper": float(found.regions.upper[0]),
        **errors,
    }


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
