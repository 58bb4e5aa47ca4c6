-- Orders that bring the most and are not shipped.
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) revenue, o_orderdate
from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by 1, 3 order by 2 desc limit 10;
