"""beartype as the tests use it: an integer is a float, as PEP 484 says and users expect."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
