-- A year's revenue within each nation of a region: seller and buyer are of the same.
select n_name, sum(l_extendedprice * (1 - l_discount)) revenue
from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey
join supplier on s_suppkey = l_suppkey and s_nationkey = c_nationkey
join nation on n_nationkey = s_nationkey join region on r_regionkey = n_regionkey
where r_name = 'ASIA' and o_orderdate between date '1994-01-01' and date '1994-12-31'
group by 1 order by 2 desc;
