-- Profit from parts of a colour, by nation and year.
select n_name, extract(year from o_orderdate),
  sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
from part join lineitem on l_partkey = p_partkey
join partsupp on ps_partkey = l_partkey and ps_suppkey = l_suppkey
join supplier on s_suppkey = l_suppkey join nation on n_nationkey = s_nationkey
join orders on o_orderkey = l_orderkey
where p_name like '%green%' group by 1, 2 order by 1, 2 desc;
