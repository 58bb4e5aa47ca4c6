-- Whether the cheaper ways of shipping make urgent orders late.
select l_shipmode, count(*) filter (where o_orderpriority in ('1-URGENT', '2-HIGH')) urgent,
  count(*) filter (where o_orderpriority not in ('1-URGENT', '2-HIGH')) other
from lineitem join orders on o_orderkey = l_orderkey
where l_shipmode in ('MAIL', 'SHIP') and l_receiptdate between date '1994-01-01' and date '1994-12-31'
and l_shipdate < l_commitdate and l_commitdate < l_receiptdate group by 1 order by 1;
