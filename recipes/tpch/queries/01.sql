-- What was billed until a date, by return flag and status: a scan of the largest table.
select l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice),
  sum(l_extendedprice * (1 - l_discount)) discounted,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) charged,
  avg(l_quantity), avg(l_extendedprice), avg(l_discount)
from lineitem where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2;
