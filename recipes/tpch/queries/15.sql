-- The supplier, or suppliers, of a quarter's largest revenue.
with supplied as (
  select l_suppkey, sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem
  where l_shipdate between date '1996-01-01' and date '1996-03-31' group by 1
)
select s_suppkey, s_name, s_address, s_phone, revenue
from supplied join supplier on s_suppkey = l_suppkey
where revenue = (select max(revenue) from supplied) order by s_suppkey;
