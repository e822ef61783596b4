"""The probes of configuration files are what RocketMQ's own decoders say today."""

import pytest
from support import config_probes

from interop.broker import Client

pytestmark = [pytest.mark.interop, pytest.mark.broker]


@pytest.mark.parametrize("release", config_probes.RELEASES)
def test_rocketmq_decodes_each_probe_as_recorded(release, tmp_path):
    probes = config_probes.probes()
    client = Client(release, tmp_path)
    try:
        answers = client.decode([{"name": probe["name"], "data": probe["data"]} for probe in probes])
    finally:
        client.close()
    for probe, answer in zip(probes, answers, strict=True):
        assert answer == probe[release], probe["what"]
