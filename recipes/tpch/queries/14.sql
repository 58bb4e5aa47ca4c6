-- The share of a month's revenue that promoted parts bring.
select 100 * sum(l_extendedprice * (1 - l_discount)) filter (where p_type like 'PROMO%')
  / sum(l_extendedprice * (1 - l_discount))
from lineitem join part on p_partkey = l_partkey
where l_shipdate between date '1995-09-01' and date '1995-09-30';
