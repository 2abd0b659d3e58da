"""`lldpctl -f json`, which Cumulus Linux and SONiC share."""

import json

from components.switches.dialect import AnswerError
from components.switches.settings import Neighbour

COMMAND = "sudo lldpctl -f json"


def neighbour_in(text: str, port: str) -> Neighbour | None:
    """The neighbour of a port; None when nobody is heard there.

    Raises:
        AnswerError: when this is not what lldpctl prints.
    """
    try:
        interfaces = json.loads(text)["lldp"].get("interface", []) if text.strip() else []
        # one interface is an object, several are a list of objects
        for each in interfaces if isinstance(interfaces, list) else [interfaces]:
            if port in each:
                heard = each[port]
                system = next(iter(heard["chassis"]))
                about = heard["port"]
                return Neighbour(system, frozenset({str(about["id"]["value"]), str(about.get("descr", ""))} - {""}))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise AnswerError(f"{COMMAND}: an answer without {error}") from None
    return None
