-- A nation's share of a region's market for one type of part, in two years.
with sale as (
  select extract(year from o_orderdate) as year, seller.n_name,
    l_extendedprice * (1 - l_discount) as volume
  from part join lineitem on l_partkey = p_partkey join orders on o_orderkey = l_orderkey
  join customer on c_custkey = o_custkey join nation buyer on buyer.n_nationkey = c_nationkey
  join region on r_regionkey = buyer.n_regionkey
  join supplier on s_suppkey = l_suppkey join nation seller on seller.n_nationkey = s_nationkey
  where p_type = 'ECONOMY ANODIZED STEEL' and r_name = 'AMERICA'
  and o_orderdate between date '1995-01-01' and date '1996-12-31'
)
select year, coalesce(sum(volume) filter (where n_name = 'BRAZIL'), 0) / sum(volume)
from sale group by year order by year;
