-- How many customers have how many orders, none included.
with customer_orders as (
  select c_custkey, count(o_orderkey) as orders from customer
  left join orders on o_custkey = c_custkey and o_comment not like '%special%requests%' group by 1
)
select orders, count(*) from customer_orders group by 1 order by 2 desc, 1 desc;
