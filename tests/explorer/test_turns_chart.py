from saiten_server.explorer.turns_chart import TurnLabels, build_survival, build_turn_rates
from saiten_server.stats.turns import ConversationTurns, read_turns
from tests.support.drawing import draw, place

LABELS = TurnLabels(
    title="Faults", description="over turns", nothing="no conversations", upright="per 100 turns", across="turn"
)


def test_rates_and_survival_are_drawn_where_they_are() -> None:
    reading = read_turns(
        [
            ConversationTurns(4, [2, 3]),
            ConversationTurns(4, []),
            ConversationTurns(2, [1]),
            ConversationTurns(3, [0]),
            ConversationTurns(1, []),
        ]
    )
    rates = draw(build_turn_rates(reading.rates, LABELS, width=292))
    points = [place(mark) for mark in rates.marks("points")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    # The last turn has the highest rate, the first the lowest: higher is further up.
    assert min(points, key=lambda point: point[1]) == points[-1]
    assert max(points, key=lambda point: point[1]) == points[0]
    assert len(rates.marks("intervals")) == sum(one.interval is not None for one in reading.rates)
    survival = draw(build_survival(reading.survival, LABELS, width=292))
    assert len(survival.marks("band")) == len(survival.marks("line")) == 1
    assert {"per 100 turns", "turn"} <= set(survival.all_texts())
    assert rates.size[0] == survival.size[0] == 292


def test_nothing_and_hundreds_of_turns() -> None:
    for spec in (build_turn_rates([], LABELS), build_survival([], LABELS)):
        assert draw(spec).texts("nothing") == ["no conversations"]
    long = read_turns([ConversationTurns(200, range(0, 200, 7)), ConversationTurns(1, [])])
    assert len(draw(build_turn_rates(long.rates, LABELS)).marks("points")) == 20
    single = read_turns([ConversationTurns(1, [])])
    assert draw(build_survival(single.survival, LABELS)).marks("band") == []
