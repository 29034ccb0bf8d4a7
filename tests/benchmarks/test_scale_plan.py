"""A billion evaluations a month, multiplied out of one measured batch."""

import pytest

from benchmarks.scale_plan import plan, show_plan

ROW = {
    "items": 1000,
    "work_cpu_ms": 1.2,
    "intake_cpu_ms": 0.12,
    "database_cpu_ms": 0.24,
    "redis_cpu_ms": 0.06,
    "database_bytes": 4000.0,
    "wal_bytes": 5000.0,
    "redis_bytes": 800.0,
}


def test_the_plan_is_plain_multiplication():
    made = plan(ROW)
    # 10^9 ÷ 2,592,000 s = 385.8/s, three times that at the peak
    assert made["mean_per_second"] == pytest.approx(385.80, abs=0.01)
    assert made["peak_per_second"] == pytest.approx(1157.41, abs=0.01)
    # 1,157.41/s × 1.2 ms ÷ 0.6
    assert made["worker_cores"] == pytest.approx(2.3148, abs=0.0001)
    assert made["database_tb_a_month"] == pytest.approx(4.0)
    # 385.80/s × 800 B × 86,400 s; 64 GB ÷ (385.80/s × 800 B) = 57.6 hours
    assert made["cache_gb_a_day"] == pytest.approx(26.667, abs=0.001)
    assert made["cache_hours"] == pytest.approx(57.6)
    # 16 cores × 0.6 ÷ 0.24 ms
    assert made["most_per_second_of_a_database"] == pytest.approx(40_000)


def test_what_is_too_little_to_be_measured_is_not_reckoned_with(capsys):
    show_plan({**ROW, "database_cpu_ms": 0.0})
    assert "not reckoned" in capsys.readouterr().out


def test_the_plan_is_shown_with_its_sums(capsys):
    show_plan(ROW)
    assert "1,157/s × 1.200 ms ÷ 0.6" in capsys.readouterr().out
