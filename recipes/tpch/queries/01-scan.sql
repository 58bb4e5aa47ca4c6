-- A scan of the largest table.
select l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice), count(*)
from lineitem where l_shipdate < date '1998-08-01' group by 1, 2 order by 1, 2;
